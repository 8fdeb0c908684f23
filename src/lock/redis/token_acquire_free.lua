-- What token_acquire.lua does where nobody holds the lock and nobody waits, which is most often.
-- Before all that is only for the other cases: a script makes its functions anew each time that it
-- runs. After mint_fence.lua; keys, arguments and answer as there.

local function write_hold()
  local fence = mint_fence(KEYS[2], ARGV[3], ARGV[4])
  local tail = ARGV[5] ~= '' and ':' .. ARGV[5] or ''
  redis.call('SET', KEYS[1], ARGV[1] .. ':' .. fence .. tail, 'PX', ARGV[2])
  return fence
end

if redis.call('EXISTS', KEYS[1], KEYS[3]) == 0 then
  return {write_hold(), 0}
end
