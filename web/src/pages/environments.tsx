export { default } from './environments/index';
