/** Text in which backquotes mark code, as DOM nodes: for parts of the editor that React does not render. */

export function textWithCode(text: string): Node[] {
  const paragraph = document.createElement("p");
  for (const [index, part] of text.replace(/\s+/g, " ").split("`").entries()) {
    if (index % 2 === 0) paragraph.append(part);
    else {
      const code = document.createElement("code");
      code.textContent = part;
      paragraph.append(code);
    }
  }
  return [paragraph];
}
