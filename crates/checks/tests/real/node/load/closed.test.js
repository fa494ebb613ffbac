const test = require('node:test')

test('throws a string', () => { throw 'no till' })
throw new TypeError('the till is closed')
