package theory

// ReadArtifact reads what a place of a run names below root.
func ReadArtifact(root, runID, place string) ([]byte, error) {
	f := Files{Root: root}
	return f.readArtifact(runID, place, fileLimit)
}
