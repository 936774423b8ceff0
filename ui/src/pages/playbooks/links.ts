/** Where the page of a playbook is: paths hold slashes, so they travel in the query. */

export function linkTo(path: string, version?: number): string {
  const query = new URLSearchParams({ path });
  if (version !== undefined) query.set("version", String(version));
  return `/playbooks/one?${query.toString()}`;
}
