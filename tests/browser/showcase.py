"""A playbook that shows most of what an execution can look like, for pictures and for tests of how pages look.

It has a parallel loop, a retried task, branches that join, and a wait for an approval.
"""

from __future__ import annotations

from typing import Final

ORDERS: Final = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: nightly_orders
  path: shop/nightly_orders
  version: "1.0.0"
  description: Collects the orders of the day, checks them, and pays out after a look
workload:
  regions: [north, south, east, west, overseas]
  limit: 1000
  flag: /tmp/none
workflow:
  - step: start
    desc: One call for each region
    loop:
      in: "{{ workload.regions }}"
      iterator: region
      spec: { mode: parallel, max_in_flight: 2 }
    tool:
      kind: python
      input: { region: "{{ iter.region }}" }
      code: |
        def main(region):
            import time
            time.sleep(0.05 * len(region))
            return {"region": region, "orders": 20 + 7 * len(region), "amount": 310.5 * len(region)}
    set:
      ctx.regions: "{{ output.data }}"
      ctx.amount: "{{ output.data | sum(attribute='amount') }}"
    next:
      spec: { mode: inclusive }
      arcs:
        - step: check_stock
        - step: check_prices
  - step: check_stock
    desc: The store answers on the third attempt
    tool:
      kind: python
      input: { flag: "{{ workload.flag }}" }
      code: |
        def main(flag):
            import os
            turn = os.path.getsize(flag) if os.path.exists(flag) else 0
            open(flag, "a").write("x")
            if turn < 2:
                raise ConnectionError("the store is busy")
            return {"missing": 0}
      spec:
        policy:
          rules:
            - when: "{{ output.status == 'error' }}"
              then: { do: retry, attempts: 5, backoff: exponential, delay: 0.2 }
            - else:
                then: { do: continue }
    next:
      arcs:
        - step: review
  - step: check_prices
    tool:
      kind: noop
      input: { wrong: 0, limit: "{{ workload.limit }}" }
    next:
      arcs:
        - step: review
  - step: review
    desc: Large sums wait until somebody has looked
    spec: { policy: { admit: { join: all } } }
    tool:
      kind: wait
      signal: approval
    set:
      ctx.approval: "{{ output.data }}"
    next:
      arcs:
        - step: pay_out
          when: "{{ ctx.approval.approved }}"
        - step: hold_back
  - step: pay_out
    tool:
      kind: noop
      input: { paid: "{{ ctx.amount }}", regions: "{{ ctx.regions }}" }
  - step: hold_back
    tool:
      kind: noop
      input: { paid: 0 }
"""
