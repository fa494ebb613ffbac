// What the scripted model says. Each script fits a prompt by its words; the last one answers everything else.

const FAULT = 'return Math.floor(sum - (sum * discountPercent) / 100);';
const FIRST = 'return sum - Math.round((sum * discountPercent) / 100);';
const SECOND = 'return Math.round((sum * (100 - discountPercent)) / 100);';

/** Text and names that would do harm in a page that takes them for markup. */
export const HOSTILE = '<img src=x onerror="window.__hacked=1"><script>window.__hacked=1</script>';

/** The same small picture in two colours. */
export const PNG_BEFORE =
	'iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAFklEQVR4nGM4ISdHEmIY1TCqYfhqAADkYgQQ60fIxgAAAABJRU5ErkJggg==';
const PNG_AFTER =
	'iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAFklEQVR4nGMQqbAhCTGMahjVMHw1AAAs/sgBn0IRXwAAAABJRU5ErkJggg==';

export const scripts = [
	{
		name: 'fix',
		when: /off by one cent|cart total/i,
		gap: 6,
		steps: [
			{
				reasoning: 'The total is a cent short. Rounding is the likely place, so I look at the code before I guess.',
				text: 'I will look at the code and its tests first.',
				calls: [
					[
						'plan',
						{ items: '[>] reproduce the wrong total\n[ ] find where it is rounded\n[ ] add a test for the half cent' },
					],
					['list', { path: '.' }],
					['read', { path: 'src/cart.js' }],
					['read', { path: 'test/cart.test.js' }],
				],
			},
			{
				text: 'The tests first, to see it fail.',
				calls: [['shell', { command: 'npm test 2>&1' }]],
			},
			{
				text: 'The division **cuts the half cent off** instead of rounding it:\n\n```js\nreturn Math.floor(sum - (sum * discountPercent) / 100);\n```\n\nI will round the discount.',
				calls: [
					[
						'plan',
						{ items: '[x] reproduce the wrong total\n[>] find where it is rounded\n[ ] add a test for the half cent' },
					],
					['edit', { path: 'src/cart.js', old: FAULT, new: FIRST }],
					['check', {}],
				],
			},
			{
				text: 'Rounding the discount takes the half cent from the wrong side. The total itself must be rounded.',
				calls: [
					['edit', { path: 'src/cart.js', old: FIRST, new: SECOND }],
					[
						'edit',
						{
							path: 'test/cart.test.js',
							old: "test('an empty cart costs nothing'",
							new: "test('a half cent is rounded up without a discount', () => {\n  assert.equal(total([{ price: 1, quantity: 3 }], 50), 2);\n});\n\ntest('an empty cart costs nothing'",
						},
					],
					['check', {}],
				],
			},
			{
				text: 'Fixed. The total is now rounded half up to a whole cent:\n\n| cart | discount | before | now |\n|---|---|---|---|\n| 10.05 | 10 % | 9.04 | 9.05 |\n| 0.03 | 50 % | 0.01 | 0.02 |\n\n- `src/cart.js`: one rounding, of the total itself\n- `test/cart.test.js`: a test for the half cent without a full discount\n\nAll tests pass.',
				calls: [
					[
						'plan',
						{ items: '[x] reproduce the wrong total\n[x] find where it is rounded\n[x] add a test for the half cent' },
					],
				],
			},
			{ text: 'The cart total is right to the cent, and the tests cover the half cent.' },
		],
	},
	{
		name: 'stream',
		when: /describe the repository slowly/i,
		gap: 12,
		steps: [
			{
				gate: 'stream',
				text: `Here is what is in this repository. ${Array.from({ length: 60 }, (_, n) => `Part ${n + 1} is about the cart.`).join(' ')} That is all.`,
			},
		],
	},
	{
		name: 'long',
		when: /run something long/i,
		steps: [
			{
				text: 'A command that takes its time.',
				calls: [
					[
						'shell',
						{
							command: 'for i in $(seq 1 400); do echo "line $i of a long command"; sleep 0.1; done',
							timeout_ms: 120000,
						},
					],
				],
			},
			{ text: 'The long command came to its end.' },
		],
	},
	{
		name: 'ask',
		when: /which currency/i,
		steps: [
			{
				text: 'I need to know one thing.',
				calls: [['ask', { question: 'Should prices be shown in euros or in dollars?', options: ['Euros', 'Dollars'] }]],
			},
			{ text: 'Thank you. I made a note of it and changed nothing.' },
		],
	},
	{
		name: 'approve',
		when: /rename the package/i,
		steps: [
			{
				text: 'The name is in `package.json`.',
				calls: [['edit', { path: 'package.json', old: '"name": "shop"', new: '"name": "storefront"' }]],
			},
			{ calls: [['shell', { command: 'git log --oneline | head -3' }]] },
			{ text: 'The package is called **storefront** now.' },
		],
	},
	{
		name: 'fetch',
		when: /fetch the list of files/i,
		steps: [
			{ text: 'I will fetch it.', calls: [['web_fetch', { url: 'https://files.example.com/list' }]] },
			{ text: 'It cannot be reached from here.' },
		],
	},
	{
		name: 'overloaded',
		when: /while the model is busy/i,
		steps: [{ overloaded: 3, text: 'The model is back, and there was nothing to do.' }],
	},
	{
		name: 'silent',
		when: /say nothing for a long time/i,
		steps: [{ gate: 'silence', text: 'Nothing.' }],
	},
	{
		name: 'overwrite',
		when: /write the readme anew/i,
		steps: [
			{
				text: 'I write it anew.',
				calls: [['write', { path: 'README.md', content: '# Shop\n\nOne shop for all.\n' }]],
			},
			{ text: 'The readme is another one.' },
		],
	},
	{
		name: 'hostile',
		when: /hostile/i,
		steps: [
			{
				text: `Markdown with ${HOSTILE} and [a link](javascript:window.__hacked=1) and ![picture](https://example.com/x.png "t") and <svg onload="window.__hacked=1"></svg> <a href="https://example.com" onclick="window.__hacked=1">ok</a>\n\n<iframe srcdoc="<script>parent.__hacked=1</script>"></iframe><style>body{display:none}</style>\n`,
				calls: [
					['write', { path: 'src/<img src=x onerror=window.__hacked=1>.js', content: `${HOSTILE}\n` }],
					[
						'write',
						{
							path: 'drawing.svg',
							content:
								'<svg xmlns="http://www.w3.org/2000/svg" onload="window.__hacked=1"><script>window.__hacked=1</script><rect width="9" height="9"/></svg>\n',
						},
					],
					[
						'shell',
						{
							command: `printf '\\033[31mred\\033[0m \\033]0;title\\007 \\033]8;;javascript:window.__hacked=1\\007link\\033]8;;\\007 \\033[2J\\033[99999;99999H<b>not bold</b> %s\\n' '<script>window.__hacked=1</script>'`,
						},
					],
					['plan', { items: `[>] ${HOSTILE}` }],
				],
			},
			{ text: 'It is all text.' },
		],
	},
	{
		name: 'review',
		when: /tidy the shop up/i,
		steps: [
			{
				text: 'I move the description, draw another logo and count to many.',
				calls: [
					[
						'shell',
						{
							command: [
								'mkdir -p docs && git mv README.md docs/shop.md',
								`printf '%s' '${PNG_AFTER}' | base64 -d > logo.png`,
								'head -c 3000 /dev/urandom > data.bin',
								'seq 1 3000 > numbers.txt',
								"printf '%s\\n' 'export const hundred = 100;' > src/cents.js",
								'chmod +x package.json',
							].join(' && '),
						},
					],
					['edit', { path: 'src/cart.js', old: FAULT, new: SECOND }],
				],
			},
			{ text: 'The shop is tidy.' },
		],
	},
	{
		name: 'comments',
		when: /take up these comments/i,
		steps: [
			{
				text: 'I take them up.',
				calls: [['write', { path: 'src/cents.js', content: '/** Cents of a unit. */\nexport const hundred = 100;\n' }]],
			},
			{ text: 'The comments are taken up.' },
		],
	},
	{
		name: 'quick',
		when: /./,
		steps: [{ text: 'There is nothing to change: the cart does what it should.' }],
	},
];
