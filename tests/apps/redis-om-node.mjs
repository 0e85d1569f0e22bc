// Redis OM for Node: JSON documents and hashes by their schemas, found by every kind of field, sorted, paged and counted.
import { createClient } from 'redis';
import { EntityId, Repository, Schema } from 'redis-om';

const client = await createClient({ socket: { port: Number(process.env.REDIS_PORT) } }).connect();
const show = (...words) => console.log(words.map((word) => JSON.stringify(word)).join(' '));
const names = (found) => found.map((one) => one.name);

const albums = [
  ['Mushroom', 'Mushroomhead', 1999, ['metal', 'heavy'], false, 4.5, [-81.7, 41.5], '2001-01-02', 'the sea of sounds'],
  ['Metropolis', 'Dream Theater', 1999, ['prog'], true, 5, [-73.9, 40.7], '1999-10-26', 'memories of a scene'],
  ['Low', 'David Bowie', 1977, ['art', 'a b'], true, 4, [13.4, 52.5], '1977-01-14', 'bright sounds, visions'],
  ['Heroes!', 'David Bowie', 1977, ['art'], false, 4.25, [13.4, 52.5], '1977-10-14', "it's a day, not more"],
].map(([name, artist, year, tags, out, stars, [longitude, latitude], day, about]) => (
  { name, artist, year, tags, out, stars, place: { longitude, latitude }, day: new Date(day), about }));

for (const dataStructure of ['JSON', 'HASH']) {
  const schema = new Schema(`album-${dataStructure}`, {
    name: { type: 'string' },
    artist: { type: 'string' },
    year: { type: 'number', sortable: true },
    tags: { type: 'string[]' },
    out: { type: 'boolean' },
    stars: { type: 'number' },
    place: { type: 'point' },
    day: { type: 'date', sortable: true },
    about: { type: 'text' },
  }, { dataStructure });
  const repository = new Repository(schema, client);
  await repository.createIndex();
  await repository.createIndex();
  for (const album of albums) await repository.save(album.name.slice(0, 3), album);
  show(dataStructure, await client.ft._list(), names(await repository.search().sortAsc('name').return.all()).length);

  const searches = {
    all: (search) => search,
    string: (search) => search.where('artist').equals('David Bowie'),
    escaped: (search) => search.where('name').eq('Heroes!'),
    not: (search) => search.where('artist').does.not.equal('David Bowie'),
    above: (search) => search.where('year').is.greaterThan(1977),
    between: (search) => search.where('stars').between(4, 4.5),
    number: (search) => search.where('year').eq(1977),
    true: (search) => search.where('out').is.true(),
    false: (search) => search.where('out').is.false(),
    tag: (search) => search.where('tags').contains('art'),
    tags: (search) => search.where('tags').containsOneOf('prog', 'a b'),
    text: (search) => search.where('about').matches('sound'),
    exact: (search) => search.where('about').matchesExactly('bright sounds'),
    beginning: (search) => search.where('about').matches('memor*'),
    near: (search) => search.where('place').inRadius((c) => c.longitude(-74).latitude(40.7).radius(800).km),
    before: (search) => search.where('day').is.before(new Date('1980-01-01')),
    on: (search) => search.where('day').on('1999-10-26'),
    both: (search) => search.where('artist').equals('David Bowie').and('out').is.true(),
    either: (search) => search.where('year').eq(1977).or('tags').contains('metal'),
    nested: (search) => search.where('out').is.true().and((or) => or.where('year').lt(1980).or('stars').gte(5)),
    raw: () => repository.searchRaw('@year:[1990 2000]'),
    none: (search) => search.where('name').eq('nothing'),
  };
  for (const [title, condition] of Object.entries(searches)) {
    const found = await condition(repository.search()).sortAsc('day').return.all();
    show(title, await condition(repository.search()).return.count(), names(found));
  }
  const by = (field) => repository.search().sortDescending(field);
  show('sorted', names(await by('day').return.all()), names(await by('stars').return.all()));
  show('page', names(await by('day').return.page(1, 2)), (await by('day').return.first()).name);
  show('least', (await repository.search().return.min('year')).year, (await repository.search().return.max('day')).name);
  show('ids', await by('day').return.allIds(), await by('day').return.firstKey());

  const low = await repository.fetch('Low');
  show('fetched', low[EntityId], { ...low, day: low.day.toISOString() });
  await repository.save({ ...low, [EntityId]: 'Low', stars: 1, tags: ['new'] });
  show('saved', names(await repository.search().where('tags').contains('new').and('stars').lt(2).return.all()));
  await repository.expire('Low', 100);
  show('ttl', (await client.ttl(`album-${dataStructure}:Low`)) > 0);
  await repository.remove('Met', 'Mus');
  show('removed', names(await by('day').return.all()), await repository.fetch('Met'));
  await repository.dropIndex();
  show('dropped', await client.ft._list(), await client.exists(`album-${dataStructure}:Low`));
}
await client.quit();
