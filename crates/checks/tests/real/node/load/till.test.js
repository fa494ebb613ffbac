const assert = require('node:assert')
const test = require('node:test')
const { add } = require('./till.js')

test('adds up', () => assert.strictEqual(add(2, 3), 5))
