import { expect, test } from 'vitest'
test('fine', async () => {
  Promise.reject(new Error('too late'))
  await new Promise((done) => setTimeout(done, 10))
  expect(1).toBe(1)
})
