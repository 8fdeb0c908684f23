-- Gives a permit back if the token has one.
-- KEYS[1]  the holds
-- ARGV[1]  the token
-- Answers  1 if given back, 0 if its lease has ended or it had none

if not let_go(KEYS[1], ARGV[1]) then
  return 0
end
return 1
