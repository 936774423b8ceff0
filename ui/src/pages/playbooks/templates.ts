/** Templates for new playbooks. Each one is complete and can run. */

export interface Template {
  id: string;
  title: string;
  description: string;
  text: string;
}

const head = (name: string, description: string): string => `\
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: ${name}
  path: my/${name}
  description: ${description}
`;

const HELLO = `${head("hello", "says hello")}
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

const FETCH = `${head("fetch", "requests a page and retries when the server is busy")}
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

const LOOP = `${head("loop", "processes every item, four at a time")}
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

const APPROVAL = `${head("approval", "waits for a person before it continues")}
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

const EMPTY = `${head("new", "describe your playbook here")}
workload: {}

workflow:
- step: start
  tool: {kind: noop}
`;

export const TEMPLATES: Template[] = [
  { id: "hello", title: "Hello", description: "One Python step with one input", text: HELLO },
  { id: "fetch", title: "Call an API", description: "A request that is retried when it fails", text: FETCH },
  { id: "loop", title: "Loop", description: "Processes every item, several at a time", text: LOOP },
  { id: "approval", title: "Approval", description: "Waits for a person, then continues", text: APPROVAL },
  { id: "empty", title: "Empty", description: "A minimal playbook to start from", text: EMPTY },
];
