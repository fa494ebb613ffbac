import { nothing } from './missing'
nothing()
