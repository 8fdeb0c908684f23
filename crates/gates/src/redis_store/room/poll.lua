-- One poll of a buyer in the waiting room of an item: joins, tells the position, or admits.
-- KEYS[1]  the room, a hash: state (gathering, frozen or open), base, next, lost_from and lost_to (numbers that were
--          given, and that an older copy of Redis does not know), tat (the time of the next admission, in
--          microseconds), window, count and before (admissions of ten seconds), secret
-- KEYS[2]  who came before the opening, until the places are given, a hash: buyer -> what the place is sorted by
-- KEYS[3]  who waits, a sorted set: buyer by number
-- KEYS[4]  who waits and has not asked lately, a sorted set: buyer by number
-- KEYS[5]  until when the buyers of the two sets are expected to ask, a sorted set in milliseconds
-- KEYS[6]  the admitted buyers, a sorted set by the end of their tickets, in milliseconds
-- KEYS[7]  proofs of work that were used, a sorted set by the end of their validity in milliseconds
-- KEYS[8]  the zero bits that a turn costs, a hash by waiting buyer: fixed at the join
-- KEYS[9]  buyers who gave their tickets back, a sorted set by the latest end that one of those can have, in
--          milliseconds
-- KEYS[10] numbers that queue tokens brought back, a set of buyer:number
-- ARGV[1]  the buyer
-- ARGV[2]  the beginning of the sale, in milliseconds
-- ARGV[3]  the shift of the clock in milliseconds (tests)
-- ARGV[4]  time between two admissions, in microseconds
-- ARGV[5]  buyers who may be inside at once
-- ARGV[6]  buyers who may wait at once, and numbers that may be brought back
-- ARGV[7]  how long a buyer may be silent and still waits, in milliseconds
-- ARGV[8]  how long a ticket is valid, and how long the place of a silent buyer is kept, in milliseconds
-- ARGV[9]  the number that the buyer's queue token shows, or 0
-- ARGV[10] the secret of the room, if it has none yet
-- ARGV[11] the id of a right proof of work, or empty
-- ARGV[12] zero bits that the shown token names
-- ARGV[13] the most zero bits
-- ARGV[14] the end of the proof's validity, in milliseconds
-- ARGV[15] how long the keys live without a change, in milliseconds
-- ARGV[16] the zero bits of the proof
-- ARGV[17] the end of the sale, in milliseconds
-- ARGV[18] 1 while the sale is paused
-- ARGV[19] the highest number that the instance knows of
-- Answers the status (ended, early, drawing, behind, waiting, admitted, full, unproved or replayed), the buyer's
-- number, buyers ahead, buyers who wait, buyers inside, tickets that ran out, admissions of the ten
-- seconds before, zero bits, the end of the ticket in milliseconds, the time in milliseconds, and the highest
-- number that was given.
local buyer = ARGV[1]
local clock = redis.call('TIME')
local now_us = clock[1] * 1000000 + clock[2] + ARGV[3] * 1000
local now = math.floor(now_us / 1000)
local silent_at, forgotten_at = now + ARGV[7], now + ARGV[8]
-- The only clock that says whether the sale is open: that of an instance may be wrong.
local phase = 'open'
if now < tonumber(ARGV[2]) then
  phase = 'early'
elseif now >= tonumber(ARGV[17]) then
  return {'ended', 0, 0, 0, 0, 0, 0, 0, 0, now, 0}
elseif ARGV[18] == '1' then
  phase = 'closed'
end
local room = redis.call('HMGET', KEYS[1], 'state', 'base', 'next', 'tat', 'window', 'count', 'before', 'lost_from',
  'lost_to')
local state, base, tat = room[1], tonumber(room[2] or '0'), tonumber(room[4] or '0')
local given = tonumber(room[3] or '0')

local function keep()
  for _, key in ipairs(KEYS) do
    redis.call('PEXPIRE', key, ARGV[15])
  end
end

if not state then
  -- Numbers of a room that was lost are lower, because it is older: seconds since 2020, and 22 bits.
  state = phase == 'early' and 'gathering' or 'open'
  base, tat = (clock[1] - 1577836800) * 4194304, now_us
  redis.call('HSET', KEYS[1], 'state', state, 'base', string.format('%.0f', base), 'next', 0,
    'tat', string.format('%.0f', tat))
  keep()
end
if state == 'gathering' and phase ~= 'early' then
  local present = redis.call('HLEN', KEYS[2])
  state, tat, given = present > 0 and 'frozen' or 'open', now_us, present
  redis.call('HSET', KEYS[1], 'state', state, 'next', present, 'tat', string.format('%.0f', tat))
end

-- A number that was given proves those before it: an older copy of Redis does not give them again.
local lost_from, lost_to = tonumber(room[8] or '0'), tonumber(room[9] or '0')
local highest = math.max(tonumber(ARGV[9]), tonumber(ARGV[19]))
if state ~= 'gathering' and highest > base + given then
  lost_from = lost_to > 0 and math.min(lost_from, given) or given
  given, lost_to = highest - base, highest - base
  redis.call('HSET', KEYS[1], 'next', string.format('%.0f', given), 'lost_from', string.format('%.0f', lost_from),
    'lost_to', string.format('%.0f', lost_to))
  keep()
end

-- Times of a clock that was ahead and was set right: nothing waits longer than it would from now.
local step = tonumber(ARGV[4])
if tat > now_us + step then
  tat = now_us + step
  redis.call('HSET', KEYS[1], 'tat', string.format('%.0f', tat))
end
for key, latest in pairs({[5] = math.max(silent_at, forgotten_at), [6] = forgotten_at}) do
  local ahead = redis.call('ZRANGEBYSCORE', KEYS[key], latest + 1000, '+inf', 'LIMIT', 0, 100)
  for _, other in ipairs(ahead) do
    redis.call('ZADD', KEYS[key], key == 5 and silent_at or forgotten_at, other)
  end
end

local expired = redis.call('ZREMRANGEBYSCORE', KEYS[6], '-inf', now)
local window, flow = math.floor(now / 10000), 0
local since = tonumber(room[5] or '-1')
if since == window then
  flow = tonumber(room[7])
elseif since == window - 1 then
  flow = tonumber(room[6])
end
local people, bits = 0, 0
local function answer(status, number, ahead, ticket_end)
  local inside = redis.call('ZCARD', KEYS[6])
  return {status, number, ahead, people, inside, expired, flow, bits, ticket_end or 0, now, base + given}
end
local function bits_for(others)
  local doubled = others + 1
  while doubled >= 2 and bits < tonumber(ARGV[13]) do
    doubled, bits = math.floor(doubled / 2), bits + 1
  end
end
-- The price of a stay is fixed when it begins, and ends with it.
local function bits_of_stay(others)
  local fixed = redis.call('HGET', KEYS[8], buyer)
  if fixed then
    bits = math.min(tonumber(fixed), tonumber(ARGV[13]))
  else
    bits_for(others)
    redis.call('HSET', KEYS[8], buyer, bits)
  end
end

local early = redis.call('HEXISTS', KEYS[2], buyer) == 1
if state == 'gathering' then
  people = redis.call('HLEN', KEYS[2])
  if not early then
    if people >= tonumber(ARGV[6]) then
      return answer('full', 0, people)
    end
    bits_for(people)
    redis.call('HSET', KEYS[8], buyer, bits)
    people = people + 1
    -- The first buyer's secret stays: all places follow from it, on every instance.
    redis.call('HSETNX', KEYS[1], 'secret', ARGV[10])
    local secret = redis.call('HGET', KEYS[1], 'secret')
    redis.call('HSET', KEYS[2], buyer, redis.sha1hex(secret .. ':' .. buyer))
    redis.call('ZADD', KEYS[5], silent_at, buyer)
    keep()
  else
    bits_of_stay(people - 1)
    redis.call('ZADD', KEYS[5], silent_at, buyer)
  end
  return answer('early', 0, people - 1)
elseif state == 'frozen' and early then
  people = redis.call('HLEN', KEYS[2])
  redis.call('ZADD', KEYS[5], silent_at, buyer)
  bits_of_stay(people - 1)
  return answer('drawing', 0, people - 1)
end

local ticket_end = redis.call('ZSCORE', KEYS[6], buyer)
if ticket_end then
  return answer('admitted', 0, 0, tonumber(ticket_end))
end

-- Whoever has not asked for long waits aside, and nobody waits behind. Later the place is forgotten. Not while the
-- places are given: a buyer who has none yet would lose the price of the stay.
local silent_max = state == 'frozen' and 0 or 100
for _, silent in ipairs(redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', now, 'LIMIT', 0, silent_max)) do
  local number = redis.call('ZSCORE', KEYS[3], silent)
  if silent == buyer then
    redis.call('ZADD', KEYS[5], silent_at, buyer)
  elseif number then
    redis.call('ZREM', KEYS[3], silent)
    redis.call('ZADD', KEYS[4], number, silent)
    redis.call('ZADD', KEYS[5], forgotten_at, silent)
  else
    redis.call('ZREM', KEYS[4], silent)
    redis.call('ZREM', KEYS[5], silent)
    redis.call('HDEL', KEYS[8], silent)
  end
end

people = redis.call('ZCARD', KEYS[3]) + redis.call('ZCARD', KEYS[4])
local number = redis.call('ZSCORE', KEYS[3], buyer)
local stands = number
number = number or redis.call('ZSCORE', KEYS[4], buyer)
if number then
  bits_of_stay(people - 1)
elseif people >= tonumber(ARGV[6]) then
  return answer('full', 0, people)
else
  -- By the length of the whole line: at the turn, nobody is ahead.
  bits_for(people)
  -- The room was lost, or what it gave after the copy; with it nobody's place who shows it, once.
  local shown = tonumber(ARGV[9])
  local is_lost = shown > 0 and (shown < base or (shown > base + lost_from and shown <= base + lost_to))
  if is_lost and redis.call('SCARD', KEYS[10]) < tonumber(ARGV[6])
    and redis.call('SADD', KEYS[10], buyer .. ':' .. ARGV[9]) == 1 then
    number = ARGV[9]
    bits = math.min(math.max(bits, tonumber(ARGV[12])), tonumber(ARGV[13]))
  else
    given = redis.call('HINCRBY', KEYS[1], 'next', 1)
    number = string.format('%.0f', base + given)
  end
  redis.call('HSET', KEYS[8], buyer, bits)
end
local ahead = redis.call('ZCOUNT', KEYS[3], '-inf', '(' .. number)

-- A second without an admission is made up for, and no more.
tat = math.max(tat, now_us - math.max(0, 1000000 - step))
local turns = 0
if state == 'open' and phase == 'open' and tat <= now_us then
  turns = math.min(math.floor((now_us - tat) / step) + 1,
    tonumber(ARGV[5]) - redis.call('ZCARD', KEYS[6]))
end
if ahead < turns then
  redis.call('ZREMRANGEBYSCORE', KEYS[7], '-inf', now)
  local is_proof = ARGV[11] ~= '' and tonumber(ARGV[14]) > now
  local replayed = is_proof and redis.call('ZSCORE', KEYS[7], ARGV[11])
  if bits > 0 and (not is_proof or replayed or tonumber(ARGV[16]) < bits) then
    -- Nobody waits behind a buyer who does not prove the work.
    redis.call('ZREM', KEYS[3], buyer)
    redis.call('ZADD', KEYS[4], number, buyer)
    redis.call('ZADD', KEYS[5], forgotten_at, buyer)
    keep()
    return answer(replayed and 'replayed' or 'unproved', tonumber(number), ahead)
  end
  if is_proof then
    redis.call('ZADD', KEYS[7], ARGV[14], ARGV[11])
  end
  for at = 3, 5 do
    redis.call('ZREM', KEYS[at], buyer)
  end
  redis.call('HDEL', KEYS[8], buyer)
  -- A ticket that ends later is none of those that were given back. A clock that was ahead counts no more.
  local given_back = tonumber(redis.call('ZSCORE', KEYS[9], buyer) or '0')
  if given_back >= forgotten_at + 1000 then
    redis.call('ZREM', KEYS[9], buyer)
  else
    forgotten_at = math.max(forgotten_at, given_back + 1)
  end
  redis.call('ZADD', KEYS[6], forgotten_at, buyer)
  local count, before = tonumber(room[6] or '0'), flow
  if since ~= window then
    count = 0
  end
  redis.call('HSET', KEYS[1], 'tat', string.format('%.0f', tat + step), 'window', window,
    'count', count + 1, 'before', before)
  keep()
  return answer('admitted', tonumber(number), 0, forgotten_at)
end
redis.call('ZADD', KEYS[5], silent_at, buyer)
if not stands then
  redis.call('ZREM', KEYS[4], buyer)
  redis.call('ZADD', KEYS[3], number, buyer)
  people = redis.call('ZCARD', KEYS[3]) + redis.call('ZCARD', KEYS[4])
  keep()
end
return answer(state == 'frozen' and 'behind' or 'waiting', tonumber(number), ahead)
