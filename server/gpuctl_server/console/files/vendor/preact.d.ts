export type VNode = { type: unknown; props: unknown };
export function h(type: unknown, props: unknown, ...children: unknown[]): VNode;
export function render(node: unknown, parent: Element): void;
