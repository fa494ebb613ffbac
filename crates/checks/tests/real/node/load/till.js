exports.add = (a, b) => a +;
