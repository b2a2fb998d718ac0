# PowerShell completion for wirectl. To have it in every shell:
#
#   wirectl completion powershell >> $PROFILE

Register-ArgumentCompleter -Native -CommandName wirectl -ScriptBlock {
    param($word, $ast, $cursor)
    $words = @($ast.CommandElements | Where-Object { $_.Extent.EndOffset -le $cursor } | ForEach-Object { $_.Extent.Text })
    if ($word -eq '') { $words += '""' }
    $rest = @($words | Select-Object -Skip 1)
    foreach ($line in (& $words[0] __complete @rest 2>$null)) {
        if ($line -like ':*') { continue } # PowerShell completes files by itself
        $value, $about = $line -split "`t", 2
        if (-not $about) { $about = $value }
        [System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $about)
    }
}
