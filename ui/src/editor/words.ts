/** Words with `code` in them, as elements: for the parts of the editor that React does not draw. */

export function withCode(words: string): Node[] {
  const paragraph = document.createElement("p");
  for (const [place, part] of words.replace(/\s+/g, " ").split("`").entries()) {
    if (place % 2 === 0) paragraph.append(part);
    else {
      const code = document.createElement("code");
      code.textContent = part;
      paragraph.append(code);
    }
  }
  return [paragraph];
}
