/** Playbooks by the folders of their paths. */

export interface Folder<T> {
  name: string; // "shop/orders"; "": paths without a folder
  items: T[];
}

export function folderOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf("/")));
}

export function groupByFolder<T extends { path: string }>(playbooks: readonly T[]): Folder<T>[] {
  const folders = new Map<string, T[]>();
  for (const each of playbooks) {
    const name = folderOf(each.path);
    folders.set(name, [...(folders.get(name) ?? []), each]);
  }
  return [...folders].map(([name, items]) => ({ name, items })).sort((one, other) => one.name.localeCompare(other.name));
}
