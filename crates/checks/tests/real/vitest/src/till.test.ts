import { describe, expect, it, test } from 'vitest'
import { refuse, total } from './till'

describe('till', () => {
  it('adds up', () => {
    expect(total([2, 3])).toBe(5)
  })
  it('is zero when empty', () => {
    expect(total([])).toBe(0)
  })
  describe('change', () => {
    it('gives change', () => {
      console.log('counting coins')
      refuse()
    })
    it.skip('later', () => {})
  })
})

test('objects', () => {
  expect({ a: 1, b: [1, 2] }).toEqual({ a: 1, b: [1, 3] })
})

test.todo('write me')
