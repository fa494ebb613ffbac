import { expect, test } from 'vitest'
test('fine', () => {
  expect(1).toBe(1)
})
