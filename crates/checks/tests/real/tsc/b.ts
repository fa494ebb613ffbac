interface B { x: number }
const b: B = { y: 1 };
let n: number = "a";
export { b, n };
