package protobuf

import "google.golang.org/protobuf/reflect/protoreflect"

// maxSlots is the number of slots that a message may have.
const maxSlots = 256

// slots is a set of the slots of one message. Each oneof has a slot, and so has each field
// outside of oneofs. If no slot is taken twice, no field is displaced or merged later, so one
// walk is enough.
type slots [maxSlots / 64]uint64

// takeSlot adds a slot to the set and reports whether it was already there.
func (s *slots) takeSlot(slot int) bool {
	word, bit := &s[slot/64%len(s)], uint64(1)<<(slot%64)
	taken := *word&bit != 0
	*word |= bit
	return taken
}

// slotOf returns the slot of a field. The slots of oneofs come after those of fields.
func slotOf(fd protoreflect.FieldDescriptor) int {
	if oneof := fd.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() {
		return fd.ContainingMessage().Fields().Len() + oneof.Index()
	}
	return fd.Index()
}

func slotCount(md protoreflect.MessageDescriptor) int {
	return md.Fields().Len() + md.Oneofs().Len()
}
