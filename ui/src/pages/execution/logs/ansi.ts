/** Colours of terminals in printed lines. Other control sequences are removed, and control characters become visible. */

export interface Piece {
  text: string;
  look: string; // class names: "ansi-red ansi-bold"; "": plain
}

const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
// eslint-disable-next-line no-control-regex -- these are the sequences that terminals read
const SEQUENCE = /\u001b\[([0-9;:?]*)([@-~])|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[@-Z\\-_]/g;
// Controls, bidirectional overrides and invisible spaces can hide or forge text.
// eslint-disable-next-line no-control-regex
const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

function visible(text: string): string {
  return text.replaceAll(UNSAFE, (char) => {
    const code = char.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

interface Style {
  colour: string | null;
  bold: boolean;
  dim: boolean;
}

const PLAIN: Style = { colour: null, bold: false, dim: false };

function changed(style: Style, codes: readonly number[]): Style {
  let now = style;
  for (let place = 0; place < codes.length; place += 1) {
    const code = codes[place] ?? 0;
    if (code === 0) now = PLAIN;
    else if (code === 1) now = { ...now, bold: true };
    else if (code === 2) now = { ...now, dim: true };
    else if (code === 22) now = { ...now, bold: false, dim: false };
    else if (code === 39) now = { ...now, colour: null };
    else if (code >= 30 && code <= 37) now = { ...now, colour: COLOURS[code - 30] ?? null };
    else if (code >= 90 && code <= 97) now = { ...now, colour: COLOURS[code - 90] ?? null };
    else if (code === 38 || code === 48) {
      const indexed = codes[place + 1] === 5;
      const index = codes[place + 2] ?? 0;
      if (code === 38) now = { ...now, colour: indexed && index < 16 ? (COLOURS[index % 8] ?? null) : null };
      place += indexed ? 2 : 4;
    }
  }
  return now;
}

function lookOf({ colour, bold, dim }: Style): string {
  return [colour !== null && `ansi-${colour}`, bold && "ansi-bold", dim && "ansi-dim"].filter(Boolean).join(" ");
}

export function piecesOf(line: string): Piece[] {
  const pieces: Piece[] = [];
  let style = PLAIN;
  let from = 0;
  const add = (until: number) => {
    if (until > from) pieces.push({ text: visible(line.slice(from, until)), look: lookOf(style) });
  };
  for (const match of line.matchAll(SEQUENCE)) {
    add(match.index);
    from = match.index + match[0].length;
    if (match[2] === "m") style = changed(style, (match[1] ?? "").split(/[;:]/).map(Number));
  }
  add(line.length);
  return pieces;
}

/** The line without colours, for a search. */
export const plainText = (line: string): string => line.replaceAll(SEQUENCE, "");
