/** The page of one decision, for links in mails and chats, too. */
export function decisionPage(id: string, frame: string): string {
  return `/approvals/${id}?frame=${encodeURIComponent(frame)}`;
}
