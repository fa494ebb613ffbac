const test = require('node:test')

test('is not closed', () => {
