export default [{ rules: { 'no-undef': 'error', 'no-unused-vars': 'warn', semi: 'error' } }];
