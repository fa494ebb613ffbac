export { default } from './settings/index';
