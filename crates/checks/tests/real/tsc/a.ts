const n: number = "x";
function f(a: string): number { return a }
export { n, f, missing };
