/** ELK, beside the page: it takes its time, and nothing waits for it. */

import ELK, { type ElkNode } from "elkjs/lib/elk.bundled.js";

interface Question {
  number: number;
  question: ElkNode;
}

const elk = new ELK();

self.onmessage = async (event: MessageEvent<Question>) => {
  const { number, question } = event.data;
  try {
    self.postMessage({ number, answer: await elk.layout(question) });
  } catch (error) {
    self.postMessage({ number, error: String(error) });
  }
};
