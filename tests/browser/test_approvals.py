"""Decisions of people: the inbox, the question with its form, the link to one decision, and who decided."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

from playwright.sync_api import expect

from tests.browser.browser import PHONE
from tests.browser.conftest import Opening
from tests.browser.playbooks import APPROVAL
from tests.browser.server import UiServer
from tests.e2e.processes import Workspace as CommandLine

REFUND = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: refund, path: shop/refund}
workload: {order: A-17, amount: 120}
workflow:
- step: ask
  tool:
    kind: wait
    signal: refund
    title: "Refund {{ workload.amount }} € for order {{ workload.order }}?"
    text: |
      The goods came back on Monday.
      All items are complete.
    data: {order: "{{ workload.order }}", items: [{name: lamp, price: 70}, {name: rug, price: 50}]}
    form:
      amount: {type: number, desc: how much to refund, default: 120, max: 120}
      reason: {type: string, enum: [damaged, late, other]}
  next: {arcs: [{step: pay, when: "{{ output.data.approved }}", set: {ctx.amount: "{{ output.data.amount }}"}}]}
- step: pay
  tool: {kind: noop, input: {paid: "{{ ctx.amount }}"}}
executor: {spec: {entry_step: ask}}
"""


def waiting(server: UiServer, text: str = REFUND) -> tuple[str, str]:
    """An execution that waits, and its frame."""
    id = server.begin(text)
    while not (waits := server.head(id)["waits"]):
        continue
    return id, waits[0]["frame"]


def test_a_refund_is_approved_from_the_inbox_with_its_form(server: UiServer, open_screen: Opening) -> None:
    id, _ = waiting(server)
    screen = open_screen(server)
    page = screen.open("approvals")
    expect(page.get_by_role("status", name="Total")).to_have_text("1 execution waits for a person")
    page.get_by_role("link", name=re.compile("Refund 120 € for order A-17")).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Refund 120 € for order A-17?")
    expect(page.get_by_text("All items are complete.")).to_be_visible()
    expect(page.get_by_role("region", name="Data")).to_contain_text("lamp")
    approve = page.get_by_role("button", name="Approve")
    expect(approve).to_be_disabled()
    page.get_by_role("combobox", name="reason").select_option("late")
    page.get_by_role("textbox", name="amount").fill("130")
    approve.click()
    expect(page.get_by_role("alert")).to_contain_text("expected at most 120")
    page.get_by_role("textbox", name="amount").fill("99.5")
    page.get_by_role("textbox", name="Comment").fill("agreed by phone")
    approve.click()
    expect(page.get_by_role("region", name="Decision", exact=True)).to_contain_text("approved")
    expect(page.get_by_role("region", name="Decision", exact=True)).to_contain_text("by local")
    assert screen.serious() == []
    shown = server.ask("GET", f"/executions/{id}")
    assert shown["output"]["data"] == {"paid": 99.5}
    (decision,) = server.ask("GET", f"/executions/{id}/decisions")["items"]
    assert decision["answer"] == {"amount": 99.5, "reason": "late", "approved": True, "comment": "agreed by phone"}


def test_a_link_opens_exactly_this_decision_on_a_phone(server: UiServer, open_screen: Opening) -> None:
    id, frame = waiting(server)
    waiting(server)
    screen = open_screen(server, size=PHONE)
    page = screen.open(f"approvals/{id}?frame={quote(frame)}")
    assert screen.overhang() == 0
    page.get_by_role("button", name="Reject").click()
    expect(page.get_by_role("region", name="Decision", exact=True)).to_contain_text("rejected")
    assert len(server.ask("GET", "/executions?waiting=true")["items"]) == 1


def test_the_link_in_a_mail_opens_the_decision_after_the_sign_in(tmp_path: Path, open_screen: Opening) -> None:
    token = CommandLine(tmp_path).call("token", "create", "ann", "--scope", "run", "--scope", "write").stdout.strip()
    server = UiServer(tmp_path, "--auth")
    try:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}

        def ask(path: str, body: object = None) -> Any:
            data = None if body is None else json.dumps(body).encode()
            with urlopen(Request(f"{server.url}{path}", data=data, headers=headers), timeout=60) as answer:
                return json.load(answer)

        id = ask("/executions", {"text": REFUND})["execution_id"]
        while not (waits := ask(f"/executions/{id}/head")["waits"]):
            continue
        page = open_screen(server).open(f"approvals/{id}?frame={quote(waits[0]['frame'])}")
        page.get_by_role("textbox", name="Token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Refund 120 € for order A-17?")
        page.get_by_role("button", name="Reject").click()
        expect(page.get_by_role("region", name="Decision", exact=True)).to_contain_text("by ann")
    finally:
        server.close()


def test_a_plain_signal_can_be_approved_from_the_list(server: UiServer, open_screen: Opening) -> None:
    id, _ = waiting(server, APPROVAL)
    page = open_screen(server).open("executions")
    page.get_by_role("link", name="Decide demo/refund").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("demo/refund waits for the signal approval")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("region", name="Decision", exact=True)).to_contain_text("approved")
    assert server.ask("GET", f"/executions/{id}/decisions")["items"][0]["answer"] == {"approved": True}


def test_a_question_that_was_cancelled_says_so(server: UiServer, open_screen: Opening) -> None:
    id, frame = waiting(server)
    page = open_screen(server).open(f"approvals/{id}?frame={quote(frame)}")
    expect(page.get_by_role("button", name="Approve")).to_be_visible()
    server.ask("POST", f"/executions/{id}/cancel", {})
    expect(page.get_by_text("No person has decided")).to_be_visible()
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
