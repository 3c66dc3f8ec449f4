type Tag = (strings: TemplateStringsArray, ...values: any[]) => any;
declare const htm: { bind(make: unknown): Tag };
export default htm;
