const assert = require('node:assert')
const { describe, it, test } = require('node:test')

const total = (prices) => prices.slice(1).reduce((a, b) => a + b, 0)
describe('till', () => {
  it('adds up', () => {
    assert.strictEqual(total([2, 3]), 5)
  })
  it('is zero when empty', () => {
    assert.strictEqual(total([]), 0)
  })
  it('later', { skip: 'not yet' }, () => {})
  it('some day', { todo: true }, () => { assert.ok(false) })
})
test('throws # hash', () => {
  throw new TypeError('no change given')
})
test('objects', () => {
  assert.deepStrictEqual({ a: 1, b: [1, 2] }, { a: 1, b: [1, 3] })
})
