/** Playbooks to begin with: each is whole, and runs as it is. */

export interface Template {
  id: string;
  title: string;
  says: string;
  text: string;
}

const head = (name: string, says: string): string => `\
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: ${name}
  path: my/${name}
  description: ${says}
`;

const HELLO = `${head("hello", "says hello to someone")}
workload:
  name: world

workflow:
- step: start
  tool:
    kind: python
    input: {name: "{{ workload.name }}"}
    code: |
      def main(name):
          return {"text": f"hello, {name}"}
`;

const FETCH = `${head("fetch", "gets a page, and tries again when the server is busy")}
workload:
  url: https://example.com/

workflow:
- step: start
  tool:
    kind: http
    url: "{{ workload.url }}"
    spec:
      policy:
        rules:
        - when: "{{ output.status == 'error' and output.error.retryable }}"
          then: {do: retry, attempts: 3, backoff: exponential, delay: 1.0}
        - else:
            then: {do: continue}
    set: {ctx.status: "{{ output.http.status }}"}
  next:
    arcs:
    - step: report
- step: report
  tool:
    kind: noop
    input: {status: "{{ ctx.status }}"}
`;

const LOOP = `${head("loop", "does the same for every item, four at a time")}
workload:
  numbers: [1, 2, 3, 4, 5, 6, 7, 8]

workflow:
- step: start
  loop:
    in: "{{ workload.numbers }}"
    iterator: number
    spec:
      mode: parallel
      max_in_flight: 4
  tool:
    kind: python
    input: {number: "{{ iter.number }}"}
    code: |
      def main(number):
          return number * number
`;

const APPROVAL = `${head("approval", "waits for a person before it goes on")}
workload:
  amount: 100

workflow:
- step: start
  desc: Send the signal "approved", here or with noetl signal
  tool:
    kind: wait
    signal: approved
    set: {ctx.answer: "{{ output.data }}"}
  next:
    arcs:
    - step: pay
- step: pay
  tool:
    kind: noop
    input: {amount: "{{ workload.amount }}", answer: "{{ ctx.answer }}"}
`;

const EMPTY = `${head("new", "what it is for")}
workload: {}

workflow:
- step: start
  tool: {kind: noop}
`;

export const TEMPLATES: Template[] = [
  { id: "hello", title: "Hello", says: "One step of Python, and one input", text: HELLO },
  { id: "fetch", title: "Call an API", says: "A request that is tried again when it fails", text: FETCH },
  { id: "loop", title: "A loop", says: "The same for every item, some at a time", text: LOOP },
  { id: "approval", title: "An approval", says: "Waits for a person, then goes on", text: APPROVAL },
  { id: "empty", title: "Empty", says: "The least that runs; paste your own over it", text: EMPTY },
];
