"""Every page in three widths and two schemes, with realistic data: nothing is cut, covered, pale or wider than the window."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import pytest
from playwright.sync_api import Page, expect

from tests.browser.browser import PHONE, ROOT, Scheme, Screen, Size
from tests.browser.conftest import Opening
from tests.browser.playbooks import APPROVAL, FAILING, GREETING
from tests.browser.server import UiServer
from tests.browser.showcase import ORDERS

SIZES: Final = (Size(1440, 900), Size(1024, 768), PHONE)

LOADS: Final = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: load_regions
  path: shop/load_regions
  description: Loads the orders of each region, and stores the last day
  labels: {team: data, tier: nightly}
triggers:
- {name: nightly, kind: cron, cron: "0 3 * * *"}
- {name: poll, kind: interval, every_s: 86400}
executor: {spec: {policy: {concurrency: {limit: 20}}}}
workload: {regions: [north, south, east, west, overseas]}
workflow:
- step: start
  loop: {in: "{{ workload.regions }}", iterator: region, spec: {mode: parallel, max_in_flight: 2}}
  tool:
    kind: python
    input: {region: "{{ iter.region }}"}
    code: |
      def main(region):
          print("loading", region)
          if region == "overseas":
              raise ConnectionError("the warehouse of overseas does not answer within 30 s: connection refused")
          return {"region": region, "orders": len(region)}
  next: {arcs: [{step: keep}, {step: keep, when: "{{ event.name == 'step.failed' }}"}]}
- step: keep
  tool: {kind: noop}
  set: {saved.last_day: "2026-11-17", saved.orders: 42}
"""

# Texts that are cut without an ellipsis, and texts that another text covers. Only what a person can see counts.
FAULTS: Final = """
() => {
  const found = [];
  const hides = (style) => style.overflowX !== "visible" || style.overflowY !== "visible";
  const clipped = (element, box) => {
    for (let each = element; each; each = each.parentElement) {
      if (!hides(getComputedStyle(each))) continue;
      const { left, top, right, bottom } = each.getBoundingClientRect();
      box = { left: Math.max(box.left, left), top: Math.max(box.top, top), right: Math.min(box.right, right), bottom: Math.min(box.bottom, bottom) };
    }
    return box;
  };
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || element.closest(".sr-only, .visually-hidden, script, style, noscript, option, .cm-editor, .react-flow__minimap")) continue;
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    let floats = false; // a bar that stays in view may cover what scrolls below it
    for (let each = element; each; each = each.parentElement) floats ||= /sticky|fixed/.test(getComputedStyle(each).position);
    for (const rect of range.getClientRects()) {
      if (rect.width < 2 || rect.height < 2) continue;
      const box = clipped(element, rect);
      const wide = box.right - box.left, high = box.bottom - box.top;
      if (wide < 2 || high < 2) continue;
      texts.push({ element, box, floats, text: node.textContent.trim().slice(0, 60) });
      let around = element;
      let style = getComputedStyle(around);
      while (around.parentElement && style.overflowX === "visible") {
        around = around.parentElement;
        style = getComputedStyle(around);
      }
      const cut = rect.right > around.getBoundingClientRect().right + 2;
      if (cut && /hidden|clip/.test(style.overflowX) && style.textOverflow !== "ellipsis" && !around.closest(".react-flow")) {
        found.push(`cut: ${node.textContent.trim().slice(0, 60)}`);
      }
    }
  }
  const covers = (one, other) => {
    const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
    const high = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
    return wide > 3 && high > 4;
  };
  const dialog = document.querySelector("dialog[open], [role=dialog]");
  for (let i = 0; i < texts.length; i += 1) {
    for (let j = i + 1; j < texts.length; j += 1) {
      const [one, other] = [texts[i], texts[j]];
      if (dialog && dialog.contains(one.element) !== dialog.contains(other.element)) continue;
      if (one.element === other.element || one.element.closest(".react-flow, .gantt-axis") || other.element.closest(".react-flow, .gantt-axis")) continue;
      if (one.floats === other.floats && covers(one.box, other.box)) found.push(`covers: ${one.text} | ${other.text}`);
    }
  }
  return [...new Set(found)].slice(0, 20);
}
"""


class Shown(NamedTuple):
    """The server with its data, and the ids that the addresses of pages contain."""

    server: UiServer
    ids: dict[str, str]


@pytest.fixture(scope="module")
def shown(shared: UiServer) -> Shown:
    for _ in range(4):
        shared.run(GREETING)
    failed = shared.run(FAILING, file=str(shared.folder / "missing.csv"))
    asked, review = shared.begin(APPROVAL), shared.begin(ORDERS, flag=str(shared.folder / "flag"))
    loaded, other = shared.run(LOADS), shared.run(LOADS, regions=["north", "overseas"])
    shared.register(GREETING.replace("hello", "good evening"))
    shared.ask("POST", f"/executions/{loaded}/labels", {"labels": {"incident": "4711", "owner": "the night shift"}})
    shared.ask("PUT", "/credentials/warehouse", {"value": "geheim"})
    shared.ask("POST", f"/executions/{review}/breakpoints", {"place": "pay_out"})
    shared.follow(asked, '"type":"signal"')
    return Shown(shared, {"failed": failed, "asked": asked, "review": review, "loop": loaded, "other": other})


# name → address. Every route of ui/src/routes.tsx is one of them: see the last test.
PAGES: Final = {
    "executions": "executions",
    "executions-filtered": "executions?label=team%3Ddata&status=ok",
    "execution": "executions/{review}",
    "execution-failed": "executions/{failed}?step=read",
    "execution-events": "executions/{loop}?tab=events&step=start",
    "execution-iterations": "executions/{loop}?tab=iterations",
    "execution-logs": "executions/{loop}?tab=logs",
    "execution-debug": "executions/{review}?tab=debug",
    "iteration": "executions/{loop}/iteration?run=start%231&index=4",
    "fork": "executions/{failed}/fork",
    "compare": "executions/{loop}/compare?with={other}",
    "what-if": "executions/{loop}/what-if",
    "approvals": "approvals",
    "approval": "approvals/{asked}",
    "playbooks": "playbooks",
    "playbook": "playbooks/one?path=shop/load_regions",
    "playbook-versions": "playbooks/one?path=demo/greeting&tab=versions",
    "playbook-run": "playbooks/one?path=shop/load_regions&tab=run",
    "history": "playbooks/history?path=shop/load_regions",
    "triggers": "triggers",
    "schedule": "schedule",
    "saved": "saved?path=shop/load_regions",
    "tools": "tools",
    "credentials": "credentials",
    "workers": "workers",
    "limits": "limits",
    "audit": "audit",
    "health": "health",
}  # fmt: skip


def settle(screen: Screen, address: str) -> Page:
    page = screen.settle(address)
    expect(page.locator(".skeleton")).to_have_count(0)
    expect(page.locator(".stale")).to_have_count(0)
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size.width))
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_legible(shown: Shown, open_screen: Opening, name: str, size: Size, scheme: Scheme) -> None:
    screen = open_screen(shown.server, size, scheme)
    page = settle(screen, PAGES[name].format(**shown.ids))
    assert page.get_by_role("heading", name="Page not found").count() == 0
    errors = [line for line in screen.console if line.startswith("error")]
    faults = [*page.evaluate(FAULTS), *screen.serious(), *errors]
    assert (screen.overhang(), "\n".join(map(str, faults))) == (0, "")


def test_every_route_of_the_ui_is_a_page_of_this_test() -> None:
    routes = re.findall(r'route\("/([^"]+)"', (ROOT / "ui" / "src" / "routes.tsx").read_text())
    addresses = [re.sub(r"\{\w+\}", ":id", each.partition("?")[0]) for each in PAGES.values()]
    assert set(routes) == set(addresses)
