"""Layout rules: cancel and move Transposes, Reshapes and other movement."""
