import test from 'node:test'
import { refund } from './price.mjs'

test('gives back', () => refund())
