-- Gives a permit back if the token has one.
-- KEYS[1]  the holds, also the name of the channel
-- ARGV[1]  the token
-- Answers  1 if given back, 0 if its lease has ended or it had none

if not let_go(KEYS[1], ARGV[1]) then
  return 0
end
redis.call('PUBLISH', KEYS[1], 'free')
return 1
