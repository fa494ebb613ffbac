const assert = require('node:assert')
const test = require('node:test')

test('throws a string', () => { throw 'no till' })
test('leaks', () => { setTimeout(() => { throw new Error('too late') }, 5) })
test('prints', () => {
  console.log('seen 4')
  assert.deepStrictEqual({ a: 1 }, { a: 2 })
})
