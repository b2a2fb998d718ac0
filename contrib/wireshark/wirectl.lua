-- Names the protobuf messages of wirectl's captures for Wireshark, so that its
-- tree shows fields by name instead of by number. See docs/wireshark.md.

-- The message that travels in each direction, by the protocol's name in the
-- capture. Add your own: { c2u = "package.Request", u2c = "package.Answer" }.
local messages = {
    latis = { c2u = "latis.v1.ConnectRequest", u2c = "latis.v1.ConnectResponse" },
}

-- The tags of an exported PDU that tell them apart: 16 bits each for the tag and
-- the length of its value, then the value.
local TAG_END, TAG_PROTOCOL, TAG_DIRECTION = 0, 33, 35

local encapsulations = DissectorTable.get("wtap_encap")
local exported_pdu = encapsulations:get_dissector(wtap.WIRESHARK_UPPER_PDU)
local shim = Proto("wirectl", "wirectl capture")

local function message_type(buffer)
    local protocol, direction, at = nil, nil, 0
    while at + 4 <= buffer:len() do
        local tag, length = buffer(at, 2):uint(), buffer(at + 2, 2):uint()
        if tag == TAG_END or at + 4 + length > buffer:len() then break end
        if tag == TAG_PROTOCOL then
            protocol = buffer(at + 4, length):stringz()
        elseif tag == TAG_DIRECTION then
            direction = buffer(at + 4, length):uint() == 0 and "c2u" or "u2c"
        end
        at = at + 4 + length
    end
    local named = messages[protocol]
    return named and named[direction]
end

function shim.dissector(buffer, pinfo, tree)
    local name = message_type(buffer)
    if name then pinfo.private["pb_msg_type"] = "message," .. name end
    return exported_pdu:call(buffer, pinfo, tree)
end

encapsulations:set(wtap.WIRESHARK_UPPER_PDU, shim)
