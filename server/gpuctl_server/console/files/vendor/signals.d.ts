export interface Signal<T> {
  value: T;
}
export function signal<T>(initial: T): Signal<T>;
export function effect(run: () => void): () => void;
