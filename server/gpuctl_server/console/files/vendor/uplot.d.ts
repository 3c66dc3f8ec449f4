declare class uPlot {
  constructor(options: any, data: any, target: HTMLElement);
  setSize(size: { width: number; height: number }): void;
  destroy(): void;
}
export default uPlot;
