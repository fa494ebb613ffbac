const { nothing } = require('./missing')
nothing()
test('x', () => {})
