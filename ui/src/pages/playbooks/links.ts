/** The URL of a playbook page. The path is in the query, because it contains slashes. */

export const historyLink = (path: string): string => `/playbooks/history?path=${encodeURIComponent(path)}`;

export function playbookLink(path: string, version?: number): string {
  const query = new URLSearchParams({ path });
  if (version !== undefined) query.set("version", String(version));
  return `/playbooks/one?${query.toString()}`;
}
