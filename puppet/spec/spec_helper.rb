# frozen_string_literal: true

require 'digest'
require 'fileutils'
require 'json'
require 'rspec-puppet'
require 'tmpdir'

# Puppet knows a module by its folder's name, and this folder is called puppet: the specs reach it by a link.
modules = File.join(__dir__, 'fixtures', 'modules')
link = File.join(modules, 'bellpull')
FileUtils.mkdir_p(modules)
FileUtils.rm_f(link)
FileUtils.ln_s(File.expand_path('..', __dir__), link)

RSpec.configure do |c|
  c.module_path = modules
  c.expect_with(:rspec) { |expectations| expectations.max_formatted_output_length = 2000 }

  # A directory of data files as bellpull-hiera sync keeps it, and Puppet's own directories, anew for each example.
  c.around do |example|
    Dir.mktmpdir do |dir|
      @tmp = dir
      @dir = File.join(dir, 'hiera')
      FileUtils.mkdir_p(@dir)
      example.run
    end
  end
  c.include(Module.new do
    attr_reader :dir

    # Writes a scope's data file; entries by name as in the file.
    def write_scope(scope, entries, bucket: 'b1', revision: 7, body: JSON.generate('entries' => entries), **header)
      head = { 'bellpull' => 1, 'scope' => scope, 'bucket' => bucket, 'revision' => revision,
               'checksum' => "sha256:#{Digest::SHA256.hexdigest(body)}" }.merge(header.transform_keys(&:to_s))
      write_file(scope.gsub('/', '=2F').gsub(':', '=3A'), "#{JSON.generate(head)}\n#{body}\n")
    end

    def write_synced(scopes: [], prefixes: [''])
      write_file('synced', JSON.generate('bellpull' => 1, 'bucket' => 'b1', 'prefixes' => prefixes, 'synced' => '2026-12-01T10:00:00Z'))
      lists = File.join(dir, 'scopes')
      File.symlink(empty_lists, lists) unless File.exist?(lists)
      scopes.group_by { |scope| list_of(scope) }.each { |name, listed| write_list(name, listed) }
    end

    # 256 files for each example would take longer than the examples: they share them until they write one.
    def empty_lists
      path = File.join(Dir.tmpdir, "bellpull-spec-lists-#{Process.pid}")
      return path if File.exist?(path)

      Dir.mkdir(path)
      at_exit { FileUtils.rm_rf(path) }
      256.times { |n| File.write(File.join(path, format('%02x.json', n)), JSON.generate('bellpull' => 1, 'bucket' => 'b1', 'scopes' => [])) }
      path
    end

    def write_list(name, scopes, text: JSON.generate('bellpull' => 1, 'bucket' => 'b1', 'scopes' => scopes))
      lists = File.join(dir, 'scopes')
      if File.symlink?(lists)
        File.delete(lists)
        FileUtils.cp_r(empty_lists, lists)
      end
      write_file("scopes/#{name}", text)
    end

    def list_of(scope)
      Digest::SHA256.hexdigest(scope)[0, 2]
    end

    def write_heartbeat(age: 0)
      write_file('heartbeat', JSON.generate('bellpull' => 1, 'time' => (Time.now - age).utc.iso8601, 'sequence' => 9))
    end

    # By rename, as the sync does it: Puppet's cache goes by inode, time and size.
    def write_file(name, text)
      path = File.join(dir, "#{name}.json")
      File.write("#{path}.new", text)
      File.rename("#{path}.new", path)
      path
    end

    # A hiera.yaml with these uris of bellpull::data over a yaml level; to be used as hiera_config.
    def write_hiera(uris, options: {}, lower: {})
      File.write(File.join(@tmp, 'lower.yaml'), lower.to_yaml)
      path = File.join(@tmp, 'hiera.yaml')
      File.write(path, { 'version' => 5, 'hierarchy' => [
        { 'name' => 'bellpull', 'data_hash' => 'bellpull::data', 'uris' => uris, 'options' => { 'dir' => dir }.merge(options) },
        { 'name' => 'lower', 'data_hash' => 'yaml_data', 'datadir' => @tmp, 'path' => 'lower.yaml' },
      ] }.to_yaml)
      path
    end
  end)
end
