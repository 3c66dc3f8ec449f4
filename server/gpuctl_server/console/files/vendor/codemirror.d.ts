declare const library: any;
export = library;
