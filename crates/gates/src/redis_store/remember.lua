-- Stands before the scripts that remember requests.
-- Remembers a word of a request in the hash `key`. What is older than the time before is forgotten, so that a long sale does
-- not fill the memory.
-- key         the requests of the present time; the field `since` says since when
-- before      those of the time before
-- for_ms      how long a request is remembered at least; twice that at most
local function remember(key, before, request, word, for_ms, now_ms)
  local since = tonumber(redis.call('HGET', key, 'since') or '')
  if since and now_ms - since >= tonumber(for_ms) then
    redis.call('UNLINK', before)
    redis.call('RENAME', key, before)
    since = nil
  end
  -- Also when the clock was set back.
  if not since or since > now_ms then
    redis.call('HSET', key, 'since', now_ms)
  end
  redis.call('HSET', key, request, word)
  redis.call('PEXPIRE', key, 2 * for_ms)
end

