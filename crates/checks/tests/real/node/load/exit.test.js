console.log('leaving early')
process.exit(3)
