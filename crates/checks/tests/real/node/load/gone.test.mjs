import test from 'node:test'
import { refund } from './refund.mjs'

test('gives back', () => refund())
