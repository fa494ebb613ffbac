const test = require('node:test')
const till = require('till-that-is-not-installed')

test('counts', () => till.count())
