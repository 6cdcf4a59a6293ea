-- Append an entry to a stream, once for each delivery.
--
-- KEYS[1]  the stream
-- KEYS[2]  the note of this delivery; it lies in the same hash slot
-- ARGV[1]  seconds to keep the note
-- ARGV[2]  '', '~' or '=': no trimming, approximate, exact
-- ARGV[3]  the length to trim to
-- ARGV[4…] field, value, field, value, …
--
-- Returns the id of the entry; after '=' if the delivery was appended before, by an attempt whose answer was lost.

local appended = redis.call('GET', KEYS[2])
if appended then
  return '=' .. appended
end

-- A script undoes nothing: where the note may not be written, nothing is appended. Before version 7 nobody can ask.
if redis.acl_check_cmd and not redis.acl_check_cmd('SET', KEYS[2], '', 'EX', ARGV[1]) then
  return redis.error_reply("NOPERM this user has no permissions to run the 'set' command on the note of a delivery")
end

local command = {'XADD', KEYS[1]}
if ARGV[2] ~= '' then
  command[#command + 1] = 'MAXLEN'
  command[#command + 1] = ARGV[2]
  command[#command + 1] = ARGV[3]
end
command[#command + 1] = '*'
for index = 4, #ARGV do
  command[#command + 1] = ARGV[index]
end

local id = redis.call(unpack(command))
redis.call('SET', KEYS[2], id, 'EX', ARGV[1])
return id
