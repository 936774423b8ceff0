import { expect, test } from "vitest";
import { groupByFolder } from "./folders";

test("folders are sorted, and paths without a folder come first", () => {
  const paths = ["shop/orders/sync", "hello", "shop/pay", "shop/orders/check"].map((path) => ({ path }));
  expect(groupByFolder(paths).map(({ name, items }) => [name, items.length])).toEqual([["", 1], ["shop", 1], ["shop/orders", 2]]);
});
