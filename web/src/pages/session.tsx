export { default } from './session/index';
